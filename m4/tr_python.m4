# tr_python.m4 - the Python that draws: the distribution's, whose packages have matplotlib, before what PATH may find.

# TR_FIND_PYTHON
# Sets PYTHON (a program to try at run time, even if it lacks matplotlib now) and tr_python_why (for the summary).
AC_DEFUN([TR_FIND_PYTHON], [
AC_ARG_VAR([PYTHON], [the Python with matplotlib that draws (default: /usr/bin/python3, else python3 in PATH)])
tr_python_why="no: matplotlib was not found (Debian package python3-matplotlib; or give PYTHON=PROGRAM)"
AC_MSG_CHECKING([for a Python with matplotlib])
for tr_candidate in ${PYTHON:-/usr/bin/python3 python3}; do
    AS_IF([$tr_candidate -c 'import matplotlib' >/dev/null 2>&1], [
        PYTHON=$tr_candidate
        tr_python_why="yes, $PYTHON"
        break])
done
: "${PYTHON=/usr/bin/python3}"
AC_MSG_RESULT([$tr_python_why])
AC_DEFINE_UNQUOTED([TR_PYTHON], ["$PYTHON"], [the Python that draws])])
