from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.deployment import Item
from ridgeline.core.where import Where
from ridgeline.engine.argv import flags_of, last, with_value, without


def argv(*words: str) -> tuple[Item, ...]:
    return tuple(Item(word, Where("run.sh", line)) for line, word in enumerate(words, 1))


def read(*words: str) -> dict[str, tuple[str, ...]]:
    return {name: flag.values for name, flag in last(flags_of(argv(*words))[1]).items()}


def test_every_spelling_of_a_flag() -> None:
    before, flags = flags_of(
        argv("vllm", "serve", "org/model", "--max_num_seqs", "8", "--port=80", "-tp", "4", "--eager")
    )
    assert before == ("vllm", "serve", "org/model")
    assert {flag.name: flag.values for flag in flags} == {
        "max-num-seqs": ("8",), "port": ("80",), "tensor-parallel-size": ("4",), "eager": (),
    }  # fmt: skip
    assert read("--no-async-scheduling")["async-scheduling"] == ("false",)
    assert read("-cc.mode=3")["compilation-config.mode"] == ("3",)
    assert read("--sizes", "1", "2", "4")["sizes"] == ("1", "2", "4")
    assert read("--temperature", "-1")["temperature"] == ("-1",)
    assert read("lonely", "words") == {}


def test_the_last_of_equal_flags_counts_and_its_value_has_the_place() -> None:
    found = last(flags_of(argv("--a", "1", "--a", "2"))[1])["a"]
    assert (found.value, found.where) == ("2", Where("run.sh", 4))


def test_a_value_is_replaced_where_it_stands() -> None:
    words = argv("serve", "--a", "1", "--b")
    assert [item.text for item in with_value(words, "a", "2")] == ["serve", "--a", "2", "--b"]
    assert with_value(words, "a", "2")[2].origin == Where("run.sh", 3)
    assert [item.text for item in with_value(words, "c", "3")][-2:] == ["--c", "3"]
    assert with_value(argv("--a=1", "x"), "a", "2")[0].text == "--a=2"
    assert [item.text for item in with_value(argv("--no-a"), "a", None)] == ["--a"]
    assert [item.text for item in with_value(argv("--s", "1", "2"), "s", "4 8 12")] == ["--s", "4", "8", "12"]
    assert [item.text for item in without(argv("--a", "1", "--b", "2"), "a")] == ["--b", "2"]


names = st.sampled_from(["alpha", "beta", "gamma", "delta"])
texts = st.from_regex(r"[a-z0-9][a-z0-9./]{0,8}", fullmatch=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(names, texts)), names, texts)
def test_what_is_set_is_read_and_the_rest_stays(pairs: list[tuple[str, str]], name: str, value: str) -> None:
    words = argv("serve", *(word for key, text in pairs for word in (f"--{key}", text)))
    before = {key: flag.value for key, flag in last(flags_of(words)[1]).items()}
    after = {key: flag.value for key, flag in last(flags_of(with_value(words, name, value))[1]).items()}
    assert after == before | {name: value}
    gone = {key: flag.value for key, flag in last(flags_of(without(words, name))[1]).items()}
    assert gone == {key: text for key, text in before.items() if key != name}
