"""The lint rules, a module a family."""
