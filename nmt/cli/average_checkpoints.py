"""Average the weights of several checkpoints.

python -m nmt.cli.average_checkpoints RUN/checkpoints/a.ckpt RUN/checkpoints/b.ckpt output=RUN/checkpoints/mean.ckpt
"""

import sys
from pathlib import Path

from nmt.cli.arguments import exit_after_help
from nmt.cli.exit_status import exit_with_one_line_errors
from nmt.config.overrides import expand_home
from nmt.errors import ConfigurationError
from nmt.runs.checkpoint_average import average_checkpoints
from nmt.runs.folder import refuse_own_files


@exit_with_one_line_errors
def main() -> None:
    """Average the checkpoints that the command line names."""
    exit_after_help(sys.argv[1:], __doc__)
    arguments = list(map(expand_home, sys.argv[1:]))
    outputs = [argument.removeprefix("output=") for argument in arguments if argument.startswith("output=")]
    paths = [Path(argument) for argument in arguments if not argument.startswith("output=")]
    if len(outputs) != 1 or len(paths) < 2:
        raise ConfigurationError(f"needs output=FILE and two or more checkpoints. Fix: {__doc__.splitlines()[2]}")
    output = Path(outputs[0])
    refuse_own_files(output)
    if any(output.exists() and path.exists() and path.samefile(output) for path in paths):
        raise ConfigurationError(f"output={output}: would replace a checkpoint to be averaged. Fix: name another file")
    average_checkpoints(paths, output)
    print(f"the mean of {len(paths)} checkpoints: {outputs[0]}")


if __name__ == "__main__":
    main()
