"""Many runs, each a process: the jobs of a sweep."""
