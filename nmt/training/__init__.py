"""Training: the LightningModule, schedules, callbacks, and the road from a config to a finished run."""
