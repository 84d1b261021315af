"""Train a model: python train.py [GROUP=CHOICE …] [KEY=VALUE …]; python train.py --help lists the choices."""

import os
import sys

import hydra
from omegaconf import DictConfig

import nmt.config.resolvers
import nmt.runs.identity  # noqa: F401, because the configuration files use its resolvers
from nmt.cli.exit_status import exit_on_job_error, exit_with_one_line_errors
from nmt.config.diff import override_key
from nmt.config.first_job import show_first_job
from nmt.config.installation import CONF_DIR, IS_INSTALLED, PACKAGE
from nmt.config.overrides import expand_home, find_repeated, prepare_arguments, read_overrides
from nmt.config.schema import check_composed_config, check_overrides
from nmt.config.user_dir import add_configured_user_dir, add_typed_user_dir
from nmt.runs.job import IS_JOB
from nmt.runs.stored_overrides import repeat_run
from nmt.system.garbage_collection import pause_garbage_collection


@hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="config")
def train_composed(config: DictConfig) -> float | None:
    """Check the composed configuration and train; return the best validation score, for sweepers."""
    with exit_on_job_error():
        overrides = read_overrides()
        add_configured_user_dir(config, overrides)
        check_overrides(overrides)
        check_composed_config(config)
        with pause_garbage_collection():
            from nmt.training.experiment import train  # here, because torch and Lightning take seconds to import

        return train(config)


@exit_with_one_line_errors
def main() -> None:
    """Train what the command line composes."""
    arguments = repeat_run(list(map(expand_home, sys.argv[1:])))
    is_typed = IS_JOB not in os.environ and os.environ.get("LOCAL_RANK", "0") == "0"  # Lightning adds keys for ranks
    if is_typed and (repeated := find_repeated(sys.argv[1:])):
        values = ",".join(argument.partition("=")[2] for argument in repeated)
        sweep = f"-m {override_key(repeated[0])}={values}"
        print(f"{' '.join(repeated)}: the last one counts; {sweep} trains with each", file=sys.stderr)
    sys.argv[1:] = prepare_arguments(show_first_job(add_typed_user_dir(arguments)))
    path = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    if not IS_INSTALLED and str(PACKAGE.parent) not in path:
        # because a job that another launcher starts finds the checkout from its own folder alone
        os.environ["PYTHONPATH"] = os.pathsep.join([str(PACKAGE.parent), *path])
    os.environ["HYDRA_FULL_ERROR"] = "1"  # because Hydra then raises errors instead of printing them
    train_composed()


if __name__ == "__main__":  # because a job of a sweep is `python -m nmt.cli.train` if the project is installed
    main()
