"""Clock tower: decides what is due and watches for changes; never touches the wire."""
