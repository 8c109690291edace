# tr_nccl.m4 - NCCL, linked dynamically: --with-nccl=DIR|yes|no|guess. Needs CUDA.

AC_DEFUN([TR_NCCL], [
AC_REQUIRE([TR_CUDA])
AC_ARG_WITH([nccl], [AS_HELP_STRING([--with-nccl=DIR], [NCCL below DIR; yes, no, guess (default: guess)])],
            [], [with_nccl=guess])
tr_nccl=no
AS_CASE([$with_nccl:$tr_cuda],
    [no:*], [tr_nccl_why="no: switched off by --without-nccl"],
    [*:no], [tr_nccl_why="no: it needs CUDA"],
    [AC_MSG_CHECKING([for NCCL with symmetric windows])
     AS_CASE([$with_nccl], [yes|guess], [tr_dirs="$CUDA_DIR /usr /usr/local"], [tr_dirs=$with_nccl])
     tr_nccl_why="no: NCCL 2.27 or newer was not found (or give --with-nccl=DIR)"
     for tr_dir in $tr_dirs; do
         for tr_libdir in "$tr_dir/lib64" "$tr_dir/lib/`$CC -print-multiarch`" "$tr_dir/lib"; do
             AS_IF([test $tr_nccl = no && test -f "$tr_libdir/libnccl.so"], [TR_NCCL_TRY])
         done
     done
     AC_MSG_RESULT([$tr_nccl])])
AS_CASE([$tr_nccl:$with_nccl], [yes:*|no:no|no:guess], [], [AC_MSG_ERROR([NCCL was asked for: $tr_nccl_why])])
AS_IF([test $tr_nccl = no], [NCCL_CPPFLAGS= NCCL_LIBS=])
AC_SUBST([NCCL_CPPFLAGS])
AC_SUBST([NCCL_LIBS])
AM_CONDITIONAL([HAVE_NCCL], [test $tr_nccl = yes])
])

# TR_NCCL_TRY: does the one in $tr_dir, $tr_libdir have the symmetric windows (2.27)?
AC_DEFUN([TR_NCCL_TRY], [
tr_saved_CPPFLAGS=$CPPFLAGS tr_saved_LIBS=$LIBS
NCCL_CPPFLAGS=
AS_CASE([$tr_dir], [/usr|"$CUDA_DIR"], [], [NCCL_CPPFLAGS="-isystem $tr_dir/include"])
CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS $NCCL_CPPFLAGS" LIBS="-L$tr_libdir -lnccl $CUDA_LIBS $LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <nccl.h>]],
    [[ncclWindow_t window; return ncclCommWindowRegister(NULL, NULL, 0, &window, NCCL_WIN_COLL_SYMMETRIC);]])],
    [tr_nccl=yes
     NCCL_LIBS="-L$tr_libdir -lnccl -R$tr_libdir"
     tr_nccl_why="yes, $tr_libdir"],
    [tr_nccl_why="no: NCCL in $tr_libdir is older than 2.27 or does not link, see config.log"])
CPPFLAGS=$tr_saved_CPPFLAGS LIBS=$tr_saved_LIBS
])
