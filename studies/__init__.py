"""The laboratory notebook behind docs/results: studies, their kept runs, and the pages made of them. Not installed."""
