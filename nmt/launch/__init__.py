"""Starting runs as processes of their own: the jobs of a sweep, and the stages a run builds upon."""
