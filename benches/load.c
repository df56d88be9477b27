/*
 * A load generator that costs little: one thread, keep-alive, and bodies that the kernel drops without copying them
 * (MSG_TRUNC), so that a measurement shows the server and not its client.
 *
 *   cc -O2 -o load benches/load.c
 *   load [-c connections] [-s seconds] [-i milliseconds] [-H header] [-k] address port path
 *
 * Downloads a path again and again over each connection. With -i it prints the payload bytes of every interval, one number
 * a line. The last line is: bytes seconds requests failures. -k keeps the bytes: they are copied to user space, as
 * ordinary clients do.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 8192, PIECE = 1 << 20 };

struct connection {
    int socket;
    int head_length;
    long left; /* of the body; -1 before it */
    char head[HEAD];
};

static struct sockaddr_in server;
static char request[4096];
static int request_length, poller, keep;
static char *piece;
static long bytes, requests, failures;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void ask(struct connection *c) {
    c->head_length = 0;
    c->left = -1;
    if (send(c->socket, request, (size_t)request_length, MSG_NOSIGNAL) != request_length) failures++;
}

static void open_connection(struct connection *c) {
    int one = 1;
    c->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->socket, (struct sockaddr *)&server, sizeof server)) die("connect");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->socket, &event)) die("epoll_ctl");
    ask(c);
}

static void fail(struct connection *c) {
    failures++;
    close(c->socket);
    open_connection(c);
}

/* Bytes of a body were taken; asks again at its end. */
static void took(struct connection *c, long count) {
    bytes += count;
    c->left -= count;
    if (c->left == 0) {
        requests++;
        ask(c);
    }
}

static void read_head(struct connection *c) {
    ssize_t got = recv(c->socket, c->head + c->head_length, (size_t)(HEAD - 1 - c->head_length), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) { fail(c); return; }
    c->head_length += (int)got;
    c->head[c->head_length] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) {
        if (c->head_length == HEAD - 1) fail(c);
        return;
    }
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    if (strncmp(c->head, "HTTP/1.1 20", 11) || !length || length > end) { fail(c); return; }
    c->left = atol(length + 17);
    took(c, c->head + c->head_length - (end + 4));
}

static void read_body(struct connection *c) {
    size_t most = c->left < PIECE ? (size_t)c->left : PIECE;
    ssize_t got = recv(c->socket, piece, most, MSG_DONTWAIT | (keep ? 0 : MSG_TRUNC));
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) { fail(c); return; }
    took(c, got);
}

int main(int count, char **words) {
    int connections = 1, option;
    double seconds = 5, interval = 0;
    const char *header = "";
    while ((option = getopt(count, words, "c:s:i:H:k")) != -1) {
        switch (option) {
        case 'c': connections = atoi(optarg); break;
        case 's': seconds = atof(optarg); break;
        case 'i': interval = atof(optarg) / 1000; break;
        case 'H': header = optarg; break;
        case 'k': keep = 1; break;
        default: return 2;
        }
    }
    if (count - optind != 3) {
        fprintf(stderr, "usage: load [-c connections] [-s seconds] [-i milliseconds] [-H header] [-k] address port path\n");
        return 2;
    }
    server.sin_family = AF_INET;
    server.sin_port = htons((unsigned short)atoi(words[optind + 1]));
    if (inet_pton(AF_INET, words[optind], &server.sin_addr) != 1) die("address");
    request_length = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n", words[optind + 2],
                              words[optind], header, *header ? "\r\n" : "");
    if (request_length >= (int)sizeof request) { fprintf(stderr, "load: too long\n"); return 2; }

    poller = epoll_create1(EPOLL_CLOEXEC);
    piece = malloc(PIECE);
    struct connection *all = calloc((size_t)connections, sizeof *all);
    if (poller < 0 || !piece || !all) die("start");
    /* The clock starts before the first request. */
    double begin = now(), end = begin + seconds, next = begin + interval;
    long shown = 0;
    for (int i = 0; i < connections; i++) open_connection(&all[i]);
    struct epoll_event events[64];
    for (double time = begin; time < end; time = now()) {
        if (interval > 0 && time >= next) {
            printf("%ld\n", bytes - shown);
            shown = bytes;
            next += interval;
        }
        int ready = epoll_wait(poller, events, 64, 20);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (c->left < 0) read_head(c); else read_body(c);
        }
    }
    printf("%ld %.3f %ld %ld\n", bytes, now() - begin, requests, failures);
    return 0;
}
