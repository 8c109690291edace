/* buffer.h - the three kinds of memory that a step names: a rank's input, its output, its mailbox. */
#ifndef TR_BUFFER_H
#define TR_BUFFER_H

enum tr_buffer { TR_IN, TR_OUT, TR_BOX, TR_BUFFER_COUNT };

#endif
