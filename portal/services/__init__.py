"""Verbs: each public function is one transaction. The only writers of the database."""
