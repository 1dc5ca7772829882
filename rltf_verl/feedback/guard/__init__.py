"""The leak guard: does a feedback text give the answer away, and what becomes of it if so."""
