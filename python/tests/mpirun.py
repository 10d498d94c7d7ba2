"""What programs under mpirun are started with. For the tests beside it."""

import os
import shutil
from pathlib import Path

LIBRARIES = Path(os.environ["MILLRACE_BUILD"]) / "lib"
HAS_MPI = any(LIBRARIES.glob("libmillrace_mpi_*.so")) and shutil.which("mpirun") is not None


def environment(folder: Path) -> dict:
    """Of an mpirun whose ranks share few cores. `folder`: of this test alone, with a short name."""
    # By default all jobs of a user share one in /tmp, which each makes and removes: two that run at
    # once may find it gone (open-mpi/ompi#8510). Sockets lie in it, whose names have 108 bytes at most.
    session = folder / "mpi"
    session.mkdir(exist_ok=True)
    return os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                         "OMPI_MCA_mpi_yield_when_idle": "1",
                         "OMPI_MCA_orte_tmpdir_base": str(session)}
