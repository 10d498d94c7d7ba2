"""How pip builds the package: the extension by setuptools, the preload library by CMake if it can.

Without CMake (or a library that CMake asks for) the package has no libmillrace_trace.so of its own,
and finds the one of an installed `millrace`. MILLRACE_PRELOAD=0 leaves it out, =1 insists.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
LIBRARY = "libmillrace_trace.so"
TARGET = "millrace_trace_preload"


class BuildWithPreload(build_ext):
    def run(self) -> None:
        super().run()
        wanted = os.environ.get("MILLRACE_PRELOAD", "auto")
        if wanted == "0":
            return
        try:
            self.add_library(self.build_library())
        except (OSError, subprocess.CalledProcessError) as error:
            if wanted == "1":
                raise
            print(f"millrace: {LIBRARY} is left out of the package: {error}", file=sys.stderr)

    def build_library(self) -> Path:
        folder = Path(self.build_temp).resolve() / "preload"
        cmake = shutil.which("cmake")
        if cmake is None:
            raise FileNotFoundError("cmake was not found")
        # Its own configuration: tests, benchmarks and optional parts are of no use here.
        subprocess.run([cmake, "-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release",
                        "-DMILLRACE_PYTHON=OFF", "-DMILLRACE_YAML=OFF"], check=True)
        subprocess.run([cmake, "--build", str(folder), "--target", TARGET], check=True)
        return folder / "lib" / LIBRARY

    def add_library(self, library: Path) -> None:
        package = Path(self.get_ext_fullpath("millrace._trace")).parent
        (package / "lib").mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, package / "lib" / LIBRARY)


setup(
    ext_modules=[
        Extension(
            "millrace._trace",
            sources=sorted(str(path.relative_to(ROOT))
                           for path in (ROOT / "python" / "extension").glob("*.cc")),
            depends=sorted(str(path.relative_to(ROOT))
                           for path in (ROOT / "python" / "extension").glob("*.h")),
            include_dirs=["include"],
            extra_compile_args=["-std=c++20", "-fno-exceptions", "-fno-rtti",
                                "-fvisibility=hidden", "-Wno-missing-field-initializers"],
            language="c++",
        ),
    ],
    cmdclass={"build_ext": BuildWithPreload},
)
