# tr_library.m4 - find a C library: --with-X=DIR|yes|no|guess.

# TR_LIBRARY(NAME, INCLUDES, FUNCTION, DEBIAN PACKAGE, required|optional)
# Looks below DIR, or else asks pkg-config, or else the compiler's own path. Sets tr_NAME (yes, no), tr_NAME_why (for
# the summary), NAME_CFLAGS and NAME_LIBS. Missing is an error where the library is required or was asked for.
AC_DEFUN([TR_LIBRARY], [
AC_REQUIRE([PKG_PROG_PKG_CONFIG])
AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1=DIR], [$1 below DIR; yes, no, guess (default: guess)])],
            [], [with_$1=guess])
m4_pushdef([UP], m4_toupper([$1]))
tr_$1=no
tr_$1_why="no: switched off by --without-$1"
AS_CASE([$with_$1],
    [yes|guess], [
        UP[]_CFLAGS=`$PKG_CONFIG --cflags $1 2>/dev/null`
        UP[]_LIBS=`$PKG_CONFIG --libs $1 2>/dev/null || echo -l$1`],
    [no], [],
    [UP[]_CFLAGS="-I$with_$1/include"
     UP[]_LIBS="-L$with_$1/lib -l$1 -R$with_$1/lib"])
AS_IF([test "$with_$1" != no], [
    AC_MSG_CHECKING([for $1])
    tr_saved_CPPFLAGS=$CPPFLAGS tr_saved_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $UP[]_CFLAGS"
    # -R is libtool's; the compiler does not know it
    LIBS="`AS_ECHO(["$UP[]_LIBS"]) | $SED 's/-R[[^ ]]*//g'` $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([$2], [[return &$3 == NULL;]])], [tr_$1=yes tr_$1_why="yes, $UP[]_LIBS"], [
        tr_$1_why="no: $1 was not found (Debian package $4; or give --with-$1=DIR)"])
    CPPFLAGS=$tr_saved_CPPFLAGS LIBS=$tr_saved_LIBS
    AC_MSG_RESULT([$tr_$1])])
AS_IF([test $tr_$1 = no], [
    UP[]_CFLAGS= UP[]_LIBS=
    AS_IF([test "$5" = required], [
        AC_MSG_ERROR([$1 is required and was not found: install the Debian package $4 or give --with-$1=DIR])])
    AS_CASE([$with_$1], [no|guess], [], [
        AC_MSG_ERROR([--with-$1=$with_$1 was given, but $1 was not found there])])])
AC_SUBST(UP[]_CFLAGS)
AC_SUBST(UP[]_LIBS)
m4_popdef([UP])
])

# TR_PREFER_STATIC(NAME): name the archive itself in NAME_LIBS where there is one, for programs. A shared library of ours,
# for which an archive need not do, links what NAME_SHARED_LDFLAGS names; -Wl keeps libtool from handing that on.
AC_DEFUN([TR_PREFER_STATIC], [
m4_pushdef([UP], m4_toupper([$1]))
UP[]_SHARED_LDFLAGS=`AS_ECHO(["$UP[]_LIBS"]) |
    $SED 's/-R/-Wl,-rpath,/g; s/-l\(@<:@^ @:>@*\)/-Wl,--push-state,--no-as-needed,-l\1,--pop-state/g'`
AC_SUBST(UP[_SHARED_LDFLAGS])
UP[]_PC_LIBS=$UP[]_LIBS
AS_IF([test $tr_$1 = yes], [
    AS_CASE([$with_$1],
        [yes|guess], [tr_$1_dir=`$PKG_CONFIG --variable=libdir $1 2>/dev/null`],
        [tr_$1_dir=$with_$1/lib])
    AS_IF([test -f "$tr_$1_dir/lib$1.a"], [
        UP[]_LIBS=$tr_$1_dir/lib$1.a
        tr_$1_why="yes, $UP[]_LIBS"])])
m4_popdef([UP])
])
