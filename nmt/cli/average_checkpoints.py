"""Average the weights of several checkpoints:

python -m nmt.cli.average_checkpoints RUN/checkpoints/a.ckpt RUN/checkpoints/b.ckpt output=RUN/checkpoints/mean.ckpt
"""

import sys
from pathlib import Path

from nmt.cli.exit_status import in_plain_words
from nmt.errors import ConfigurationError
from nmt.training.weight_averaging import average


def main(arguments: list[str]) -> None:
    usage = __doc__.partition("And the moving average")[0].strip()
    if {"-h", "--help", "help"} & set(arguments):
        print(usage)
        return
    outputs = [argument.removeprefix("output=") for argument in arguments if argument.startswith("output=")]
    paths = [Path(argument) for argument in arguments if not argument.startswith("output=")]
    if len(outputs) != 1 or len(paths) < 2:
        raise ConfigurationError("at least two checkpoints and output=FILE are needed:" + usage.partition(":")[2])
    average(paths, Path(outputs[0]))
    print(f"the mean of {len(paths)} checkpoints: {outputs[0]}")


if __name__ == "__main__":
    with in_plain_words():
        main(sys.argv[1:])
