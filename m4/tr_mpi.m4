# tr_mpi.m4 - the C compiler is MPI's wrapper, so that nothing needs to know where MPI lies.

# TR_MPI: choose CC before AC_PROG_CC does. A CC that the user sets is kept, but must know MPI.
AC_DEFUN([TR_MPI], [
AC_ARG_VAR([MPICC], [MPI's C compiler wrapper (default: mpicc)])
AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi=DIR], [MPI below DIR, whose bin/mpicc compiles (default: in PATH)])],
            [], [with_mpi=yes])
AS_CASE([$with_mpi],
    [no], [AC_MSG_ERROR([Treering cannot be built without MPI])],
    [yes], [],
    [MPICC=${MPICC-$with_mpi/bin/mpicc}])
AS_IF([test -z "$CC"], [
    AC_CHECK_PROGS([MPICC], [mpicc])
    CC=$MPICC])
AS_IF([test -z "$CC"], [
    AC_MSG_ERROR([mpicc was not found: install MPI (Debian package libopenmpi-dev) or give --with-mpi=DIR])])
])

# TR_MPI_CHECK: an MPI program links.
AC_DEFUN([TR_MPI_CHECK], [
AC_MSG_CHECKING([whether $CC links an MPI program])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]], [[return MPI_Init(NULL, NULL);]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$CC cannot link an MPI program: leave CC unset, or give --with-mpi=DIR or MPICC=WRAPPER])])
tr_mpi_why="yes, through $CC"
])
