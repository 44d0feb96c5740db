"""Lists the packages: the four folders at the top are `day0.agent`, `day0.tools`, `day0.sandboxes`, `day0.runs`."""

from setuptools import find_packages, setup

ROOTS = ("agent", "tools", "sandboxes", "runs")
packages = [".".join(filter(None, ("day0", root, sub))) for root in ROOTS for sub in ("", *find_packages(root))]
setup(packages=packages, package_dir={f"day0.{root}": root for root in ROOTS})
