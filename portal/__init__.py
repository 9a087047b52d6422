"""Ground floor: facts, rules, and all that a person or a client sees. Imports nothing of jobs or scheduler."""
