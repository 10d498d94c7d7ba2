"""The environment of programs under mpirun. Used by the tests here."""

import os
import shutil
from pathlib import Path

LIBRARIES = Path(os.environ["MILLRACE_BUILD"]) / "lib"
HAS_MPI = any(LIBRARIES.glob("libmillrace_mpi_*.so")) and shutil.which("mpirun") is not None


def environment(folder: Path) -> dict:
    """For an mpirun whose ranks share few cores. `folder` belongs to this test alone; its name must be
    short."""
    # By default all jobs of a user share one session directory in /tmp, which each job makes and
    # removes, so two concurrent jobs may find it gone (open-mpi/ompi#8510). It contains sockets,
    # whose names have at most 108 bytes.
    session = folder / "mpi"
    session.mkdir(exist_ok=True)
    return os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                         "OMPI_MCA_mpi_yield_when_idle": "1",
                         "OMPI_MCA_orte_tmpdir_base": str(session)}
