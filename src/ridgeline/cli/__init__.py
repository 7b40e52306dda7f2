"""One module per verb.

Parses arguments, reads files and git where a pure room needs their content, calls one function, prints. Data goes to
stdout, talk to stderr; imports are lazy so that every verb starts quickly.
"""
