"""The pool against the plainest possible retelling of vLLM's rules: a list as queue, searched from end to end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.simulate.pool import BlockPool


class Plain:
    """Free queue as a list, contents as a list, no cleverness."""

    def __init__(self, total: int) -> None:
        self.queue = list(range(total))
        self.refs = [0] * total
        self.content: list[int | None] = [None] * total
        self.named: list[int] = []  # blocks in the order they were named

    def match(self, hashes: list[int], limit: int) -> list[int]:
        found = []
        for content in hashes[:limit]:
            block = next((b for b in self.named if self.content[b] == content), None)
            if block is None:
                break
            found.append(block)
        return found

    def take(self, blocks: list[int]) -> None:
        for block in blocks:
            if not self.refs[block]:
                self.queue.remove(block)
            self.refs[block] += 1

    def allocate(self, count: int) -> list[int]:
        taken, self.queue = self.queue[:count], self.queue[count:]
        for block in taken:
            self.refs[block] = 1
            if self.content[block] is not None:
                self.content[block] = None
                self.named.remove(block)
        return taken

    def name(self, block: int, content: int) -> None:
        self.content[block] = content
        self.named.append(block)

    def release(self, blocks: list[int]) -> None:
        for block in reversed(blocks):
            self.refs[block] -= 1
            if not self.refs[block]:
                self.queue.append(block)


def test_tails_are_lost_before_beginnings() -> None:
    pool = BlockPool(4)
    held = pool.allocate(3)
    for block, content in zip(held, (11, 12, 13), strict=True):
        pool.name(block, content)
    pool.release(held)
    pool.allocate(2)  # the unused block, then the tail
    assert pool.match([11, 12, 13], 9).blocks == held[:2]
    assert pool.evictions == 1


def test_a_hit_leaves_the_queue_and_counts_what_it_takes() -> None:
    pool = BlockPool(4)
    held = pool.allocate(2)
    pool.name(held[0], 7)
    pool.release(held)
    found = pool.match([7], 1)
    assert (found.blocks, found.free, pool.free) == ([held[0]], 1, 4)
    pool.take(found.blocks)
    assert (pool.free, pool.used, pool.match([7], 1).free) == (3, 1, 0)


def test_two_blocks_of_one_content_stand_in_for_each_other() -> None:
    pool = BlockPool(2)
    (first,), (second,) = pool.allocate(1), pool.allocate(1)
    pool.name(first, 5)
    pool.name(second, 5)
    pool.release([first])
    pool.allocate(1)
    assert pool.match([5], 1).blocks == [second]
    pool.release([second])
    pool.check()


def test_more_than_there_is_cannot_be_had() -> None:
    pool = BlockPool(2)
    with pytest.raises(IndexError, match="3 blocks wanted, 2 free"):
        pool.allocate(3)


def test_forgetting_everything_keeps_the_books() -> None:
    pool = BlockPool(3)
    held = pool.allocate(2)
    pool.name(held[0], 1)
    pool.name(held[1], 1)
    pool.forget_all()
    assert pool.match([1], 1).blocks == []
    pool.release(held)
    pool.check()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_it_agrees_with_the_plain_telling(data: st.DataObject) -> None:
    """Prompts over a small alphabet come and go; hits, blocks and order of eviction must be the same."""
    total = data.draw(st.integers(2, 12))
    pool, plain = BlockPool(total), Plain(total)
    live: list[list[int]] = []
    for _ in range(data.draw(st.integers(1, 25))):
        if live and data.draw(st.booleans()):
            blocks = live.pop(data.draw(st.integers(0, len(live) - 1)))
            pool.release(blocks)
            plain.release(blocks)
        else:
            prompt = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=5))
            hashes = [hash(tuple(prompt[: i + 1])) for i in range(len(prompt))]
            limit = data.draw(st.integers(0, len(prompt)))
            found, known = pool.match(hashes, limit), plain.match(hashes, limit)
            assert found.blocks == known
            assert found.free == sum(plain.refs[block] == 0 for block in known)
            need = len(prompt) - len(known)
            if need + found.free > pool.free:
                continue
            pool.take(known)
            plain.take(known)
            fresh = pool.allocate(need)
            assert fresh == plain.allocate(need)
            for index, block in enumerate(fresh, len(known)):
                pool.name(block, hashes[index])
                plain.name(block, hashes[index])
            live.append(known + fresh)
        pool.check()
        assert pool.free == len(plain.queue)
