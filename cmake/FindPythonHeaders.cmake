# Finds a Python that extensions can be built for, with its headers.
# Not FindPython3: a machine often has several Pythons, and the first one in PATH may lack numpy and torch, which the
# tests of the extension need. Runs every candidate and chooses the one that has most of them.
#   MILLRACE_PYTHON_EXECUTABLE      the interpreter; set it to choose another
#   PythonHeaders_EXECUTABLE        the one that was found
#   PythonHeaders_SUFFIX            the suffix of an extension's file
#   PythonHeaders_SITE              the directory of packages in its environments: lib/python3.11/site-packages
#   PythonHeaders::PythonHeaders    the target to link

set(MILLRACE_PYTHON_EXECUTABLE "" CACHE FILEPATH "The Python that the package is built for; empty: the best one found")

set(PythonHeaders_probe [[
import importlib.util, os, sys, sysconfig
include = sysconfig.get_path("include")
if sys.version_info < (3, 10) or not os.path.isfile(os.path.join(include, "Python.h")): sys.exit(1)
score = sum(weight for module, weight in (("torch", 2), ("numpy", 1)) if importlib.util.find_spec(module))
scheme = "venv" if "venv" in sysconfig.get_scheme_names() else "posix_prefix"
site = sysconfig.get_path("platlib", scheme, {"base": "", "platbase": ""}).strip("/")
print(score, sys.executable, "%d.%d.%d" % sys.version_info[:3], include, sysconfig.get_config_var("EXT_SUFFIX"), site, sep=";")
]])

if(MILLRACE_PYTHON_EXECUTABLE)
  set(PythonHeaders_candidates "${MILLRACE_PYTHON_EXECUTABLE}")
elseif(SKBUILD AND Python_EXECUTABLE)
  set(PythonHeaders_candidates "${Python_EXECUTABLE}")  # the one that pip installs into
else()
  set(PythonHeaders_candidates python3 /usr/bin/python3)
endif()

set(PythonHeaders_FOUND FALSE)
set(PythonHeaders_best -1)
foreach(candidate IN LISTS PythonHeaders_candidates)
  execute_process(COMMAND "${candidate}" -c "${PythonHeaders_probe}"
    OUTPUT_VARIABLE answer RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    list(GET answer 0 score)
    if(score GREATER PythonHeaders_best)
      set(PythonHeaders_best ${score})
      list(GET answer 1 executable)
      list(GET answer 2 PythonHeaders_VERSION)
      list(GET answer 3 PythonHeaders_INCLUDE)
      list(GET answer 4 suffix)
      list(GET answer 5 site)
      # In the cache, because find_package is called inside a function.
      set(PythonHeaders_EXECUTABLE "${executable}" CACHE INTERNAL "")
      set(PythonHeaders_SUFFIX "${suffix}" CACHE INTERNAL "")
      set(PythonHeaders_SITE "${site}" CACHE INTERNAL "")
      set(PythonHeaders_FOUND TRUE)
    endif()
  endif()
endforeach()

if(PythonHeaders_FOUND AND NOT TARGET PythonHeaders::PythonHeaders)
  add_library(PythonHeaders::PythonHeaders INTERFACE IMPORTED GLOBAL)
  target_include_directories(PythonHeaders::PythonHeaders INTERFACE "${PythonHeaders_INCLUDE}")
endif()
