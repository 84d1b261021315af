"""The operations of torch.ops.aten that wait for the device, because their result depends on values."""

WAITING = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "_unique2", "bincount")
