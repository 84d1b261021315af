"""The packages of the wheel; pyproject.toml has the rest."""

from setuptools import find_namespace_packages, find_packages, setup

# here, because pyproject.toml cannot both search for packages and take some of them from another folder
conf = ["nmt.conf", *(f"nmt.conf.{group}" for group in find_namespace_packages("conf"))]
setup(packages=[*find_packages(include=["nmt*"]), *conf, "hydra_plugins"], package_dir={"nmt.conf": "conf"})
