// Sends the frames of each file to a warden and prints the replies; the handle of an opened box is
// put into the commands after it. For a virtual machine with no other program.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static uint8_t bytes[1 << 20];
static uint64_t box;

static int read_all(int fd, uint8_t *dest, size_t size) {
  for (size_t received = 0; received < size;) {
    ssize_t got = read(fd, dest + received, size - received);
    if (got <= 0) return -1;
    received += (size_t)got;
  }
  return 0;
}

// Returns true if the reply is complete. An open box lives as long as its connection, which stays.
static int print_reply(int sock) {
  uint8_t header[12];
  uint32_t size;
  if (read_all(sock, header, sizeof header)) return printf(" lost\n");
  memcpy(&size, header + 8, 4);
  if (size >= sizeof bytes || read_all(sock, bytes, size)) return printf(" lost\n");
  bytes[size] = 0;
  switch (header[5]) {
    case 0x81: printf(" held %d%d%d%d", bytes[4], bytes[5], bytes[6], bytes[7]); return 0;
    case 0x82: printf(" says %.*s", (int)strcspn((char *)bytes, "\n"), (char *)bytes); return 0;
    case 0x84:
      printf(" ended by %d signal %d code %d\n", bytes[0], bytes[1], bytes[2]);
      close(sock);
      return 1;
    case 0x85: return printf(" refused %d %s\n", bytes[0], (char *)bytes + 2);
    case 0x88: memcpy(&box, bytes, 8); return printf(" opened\n");
    default: return 0;
  }
}

int main(int argc, char **argv) {
  for (int i = 2; i < argc; i++) {
    FILE *in = fopen(argv[i], "rb");
    size_t size = in ? fread(bytes, 1, sizeof bytes, in) : 0;
    if (in) fclose(in);
    uint8_t *field = memmem(bytes, size, "\x0e\0\x08\0\0\0", 6);
    if (field) memcpy(field + 6, &box, 8);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(sock, (struct sockaddr *)&address, sizeof address)) return 1;
    if (write(sock, bytes, size) != (ssize_t)size) return 1;
    printf("%s:", strrchr(argv[i], '/') + 1);
    while (!print_reply(sock)) {
    }
    fflush(stdout);
  }
  return 0;
}
