"""The tables, a module a subject; portal.tables hands out all of them."""
