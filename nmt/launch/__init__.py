"""Many runs: Hydra's launcher, and the jobs of a sweep. runs/job.py starts the process of one job."""
