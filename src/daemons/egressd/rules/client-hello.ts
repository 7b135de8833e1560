// Parses a TLS ClientHello for its server name. The message may arrive in any number of pieces;
// nothing is forwarded before it is complete.

export type ClientHello =
  | { state: 'more' }
  | { state: 'not-tls' }
  /** `serverName` is undefined when the client sends none. */
  | { state: 'hello'; serverName: string | undefined };

const HANDSHAKE = 0x16;
const CLIENT_HELLO = 1;
const RECORD_BYTES_MAX = 16_384 + 256;
export const HELLO_BYTES_MAX = 65_536;

const more = { state: 'more' } as const;
const notTls = { state: 'not-tls' } as const;

export function parseClientHello(bytes: Uint8Array): ClientHello {
  const message = new Uint8Array(bytes.length);
  let length = 0;
  for (let at = 0; ; ) {
    if (bytes.length > at && bytes[at] !== HANDSHAKE) return notTls;
    if (bytes.length > at + 1 && bytes[at + 1] !== 3) return notTls;
    if (bytes.length < at + 5) return moreUnlessTooLong(bytes);
    const size = (bytes[at + 3]! << 8) | bytes[at + 4]!;
    if (size === 0 || size > RECORD_BYTES_MAX) return notTls;
    const part = bytes.subarray(at + 5, at + 5 + size);
    message.set(part, length);
    length += part.length;
    if (length > 0 && message[0] !== CLIENT_HELLO) return notTls;
    if (length >= 4) {
      const whole = 4 + ((message[1]! << 16) | (message[2]! << 8) | message[3]!);
      if (whole > HELLO_BYTES_MAX) return notTls;
      if (length >= whole) return readMessage(message.subarray(4, whole));
    }
    if (part.length < size) return moreUnlessTooLong(bytes);
    at += 5 + size;
  }
}

const moreUnlessTooLong = (bytes: Uint8Array): ClientHello =>
  bytes.length > HELLO_BYTES_MAX ? notTls : more;

/** Checks every length against the end of the message. */
function readMessage(body: Uint8Array): ClientHello {
  let at = 2 + 32;
  const readVector = (lengthBytes: 1 | 2): Uint8Array | undefined => {
    if (at + lengthBytes > body.length) return undefined;
    const size = lengthBytes === 1 ? body[at]! : (body[at]! << 8) | body[at + 1]!;
    at += lengthBytes + size;
    return at > body.length ? undefined : body.subarray(at - size, at);
  };
  const session = readVector(1);
  const ciphers = session === undefined ? undefined : readVector(2);
  const compressions = ciphers === undefined ? undefined : readVector(1);
  if (compressions === undefined) return notTls;
  if (at === body.length) return { state: 'hello', serverName: undefined };
  const extensions = readVector(2);
  if (extensions === undefined || at !== body.length) return notTls;
  return readExtensions(extensions);
}

function readExtensions(bytes: Uint8Array): ClientHello {
  let serverName: string | undefined;
  for (let at = 0; at < bytes.length; ) {
    if (at + 4 > bytes.length) return notTls;
    const type = (bytes[at]! << 8) | bytes[at + 1]!;
    const size = (bytes[at + 2]! << 8) | bytes[at + 3]!;
    const data = bytes.subarray(at + 4, at + 4 + size);
    if (data.length !== size) return notTls;
    at += 4 + size;
    if (type !== 0) continue;
    const name = readServerName(data);
    // With two extensions or two names, the server would choose which one counts.
    if (name === undefined || serverName !== undefined) return notTls;
    serverName = name;
  }
  return { state: 'hello', serverName };
}

function readServerName(data: Uint8Array): string | undefined {
  if (data.length < 5 || ((data[0]! << 8) | data[1]!) !== data.length - 2) return undefined;
  const size = (data[3]! << 8) | data[4]!;
  if (data[2] !== 0 || size !== data.length - 5) return undefined;
  return String.fromCharCode(...data.subarray(5));
}
