/*
 * area_host.c - the layout of a rank's area: flags and mailboxes, and the domains that point into the areas.
 */
#include "collectives/exec_host.h"

#include <stdlib.h>
#include <string.h>

/* Mailbox bytes, by protocol, of the collectives and of each rank that may send to this one. Two of each exist. */
static const size_t COLLECTIVE_MAILBOX[TR_MAILBOX_COUNT] = {1 << 20, 4 << 20};
static const size_t PAIR_MAILBOX[TR_MAILBOX_COUNT] = {16 << 10, 128 << 10};

/* A slot's payload at most: a tile and what it is made of stay in the second-level cache. */
static const size_t LARGEST_TILE = 128 << 10;

/* ---- Areas ------------------------------------------------------------------------------------------------------- */

static size_t flags_offset(enum tr_host_lane lane, int nranks, int rank)
{
    return sizeof(struct tr_host_header) + ((size_t)lane * nranks + rank) * sizeof(struct tr_host_flag);
}

static size_t mailboxes_bytes(const size_t bytes[TR_MAILBOX_COUNT])
{
    return 2 * (bytes[TR_MAILBOX_LL] + bytes[TR_MAILBOX_DIRECT]);
}

/* Where the mailboxes begin that `sender` writes; -1: those of the collectives. */
static size_t mailboxes_offset(int nranks, int sender)
{
    size_t offset = (flags_offset(TR_HOST_LANES, nranks, 0) + 4095) / 4096 * 4096;
    return sender < 0 ? offset : offset + mailboxes_bytes(COLLECTIVE_MAILBOX) + sender * mailboxes_bytes(PAIR_MAILBOX);
}

size_t tr_host_area_bytes(int nranks)
{
    return mailboxes_offset(nranks, nranks);
}

static _Atomic uint64_t *flag(const struct tr_host *host, int owner, enum tr_host_lane lane, int writer)
{
    char *area = host->areas.rank[owner];
    struct tr_host_flag *flags = (struct tr_host_flag *)(void *)(area + flags_offset(lane, host->comm->size, writer));
    return &flags->tick;
}

/* ---- Domains ----------------------------------------------------------------------------------------------------- */

static void domain_free(struct tr_host_domain *domain)
{
    free(domain->ranks);
    free(domain->from);
    free(domain->to);
    for (int i = 0; i < TR_MAILBOX_COUNT * 2; i++)
        free(domain->box[i / 2][i % 2]);
}

static bool domain_tables(struct tr_host_domain *domain, int nranks)
{
    size_t n = (size_t)nranks;
    domain->ranks = calloc(n, sizeof *domain->ranks);
    domain->from = calloc(n, sizeof *domain->from);
    domain->to = calloc(n, sizeof *domain->to);
    bool ok = domain->ranks && domain->from && domain->to;
    for (int i = 0; i < TR_MAILBOX_COUNT * 2; i++) {
        domain->box[i / 2][i % 2] = calloc(n, sizeof(char *));
        ok = ok && domain->box[i / 2][i % 2];
    }
    return ok;
}

/* Point `rank` of the domain to the mailboxes at `offset` of that rank's area. */
static void domain_boxes(const struct tr_host *host, struct tr_host_domain *domain, int rank, size_t offset)
{
    char *area = (char *)host->areas.rank[domain->ranks[rank]] + offset;
    for (int i = 0; i < TR_MAILBOX_COUNT * 2; i++) {
        domain->box[i / 2][i % 2][rank] = area;
        area += domain->mailbox_bytes[i / 2];
    }
}

static void domain_start(const struct tr_host *host, struct tr_host_domain *domain,
                         const size_t bytes[TR_MAILBOX_COUNT])
{
    unsigned first = host->comm->config.first_epoch;
    domain->calls = domain->base = first ? first : 1;
    memcpy(domain->mailbox_bytes, bytes, sizeof domain->mailbox_bytes);
}

static bool collectives_create(struct tr_host *host, struct tr_host_domain *domain)
{
    int self = host->comm->rank, n = host->comm->size;
    if (!domain_tables(domain, n))
        return false;
    domain_start(host, domain, COLLECTIVE_MAILBOX);
    for (int r = 0; r < n; r++) {
        domain->ranks[r] = r;
        domain->from[r] = flag(host, self, TR_LANE_COLLECTIVE, r);
        domain->to[r] = flag(host, r, TR_LANE_COLLECTIVE, self);
        domain_boxes(host, domain, r, mailboxes_offset(n, -1));
    }
    return true;
}

/* Rank 0 of the program sends to rank 1; only the receiver has mailboxes. */
static bool pair_create(struct tr_host *host, struct tr_host_domain *domain, int sender, int receiver)
{
    if (!domain_tables(domain, 2))
        return false;
    domain_start(host, domain, PAIR_MAILBOX);
    domain->ranks[0] = sender;
    domain->ranks[1] = receiver;
    if (sender == host->comm->rank) {
        domain->from[1] = flag(host, sender, TR_LANE_RECEIVER, receiver);
        domain->to[1] = flag(host, receiver, TR_LANE_SENDER, sender);
    } else {
        domain->from[0] = flag(host, receiver, TR_LANE_SENDER, sender);
        domain->to[0] = flag(host, sender, TR_LANE_RECEIVER, receiver);
    }
    domain_boxes(host, domain, 1, mailboxes_offset(host->comm->size, sender));
    return true;
}

bool tr_host_domains_create(struct tr_host *host)
{
    int self = host->comm->rank;
    bool ok = collectives_create(host, &host->collectives);
    for (int r = 0; ok && r < host->comm->size; r++)
        if (r != self)
            ok = pair_create(host, &host->sends[r], self, r) && pair_create(host, &host->receives[r], r, self);
    return ok;
}

void tr_host_domains_free(struct tr_host *host)
{
    domain_free(&host->collectives);
    for (int r = 0; r < host->comm->size; r++) {
        if (host->sends)
            domain_free(&host->sends[r]);
        if (host->receives)
            domain_free(&host->receives[r]);
    }
}

struct tr_host_domain *tr_host_find_domain(struct tr_host *host, const struct tr_domain *domain)
{
    if (domain->sender < 0)
        return &host->collectives;
    return domain->sender == host->comm->rank ? &host->sends[domain->receiver] : &host->receives[domain->sender];
}

/* ---- Slots ------------------------------------------------------------------------------------------------------- */

int tr_host_mailbox(enum tr_protocol protocol)
{
    return protocol == TR_PROTOCOL_LL ? TR_MAILBOX_LL : TR_MAILBOX_DIRECT;
}

/* Lines of a slot when `slots` share a mailbox: an odd number, so that slots do not compete for the same cache sets. */
size_t tr_host_slot_lines(size_t mailbox_bytes, size_t slots)
{
    size_t lines = mailbox_bytes / TR_HOST_LINE / (slots ? slots : 1);
    return lines < 2 ? 0 : (lines - 2) | 1;
}

size_t tr_host_slot_capacity(enum tr_protocol protocol, const struct tr_domain *domain, size_t slots)
{
    if (protocol != TR_PROTOCOL_LL && protocol != TR_PROTOCOL_DIRECT)
        return 0;
    int mailbox = tr_host_mailbox(protocol);
    size_t bytes = domain->sender < 0 ? COLLECTIVE_MAILBOX[mailbox] : PAIR_MAILBOX[mailbox];
    size_t lines = tr_host_slot_lines(bytes, slots);
    size_t capacity = protocol == TR_PROTOCOL_LL ? lines / 2 * 2 * TR_PACKET_PAYLOAD : lines * TR_HOST_LINE;
    return capacity < LARGEST_TILE ? capacity : LARGEST_TILE;
}
