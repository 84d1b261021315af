"""Add the conf/ of user_dir=FOLDER to the folders where Hydra looks for configuration files."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from nmt.config.user_dir import list_conf_dirs


class UserConf(SearchPathPlugin):
    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        _, *of_user = list_conf_dirs()
        for folder in of_user:
            search_path.append("user_dir", f"file://{folder}")  # after the project's own conf/
