// The first message of TLS, as far as it says which server is meant. It may come in any number of
// pieces; nothing is passed on before it has been read.

export type Hello =
  | { state: 'more' }
  | { state: 'not-tls' }
  /** The name is undefined when the client names no server. */
  | { state: 'hello'; serverName: string | undefined };

const HANDSHAKE = 0x16;
const CLIENT_HELLO = 1;
const RECORD_BYTES_MAX = 16_384 + 256;
export const HELLO_BYTES_MAX = 65_536;

const more = { state: 'more' } as const;
const notTls = { state: 'not-tls' } as const;

export function readHello(bytes: Uint8Array): Hello {
  const message = new Uint8Array(bytes.length);
  let length = 0;
  for (let at = 0; ; ) {
    if (bytes.length > at && bytes[at] !== HANDSHAKE) return notTls;
    if (bytes.length > at + 1 && bytes[at + 1] !== 3) return notTls;
    if (bytes.length < at + 5) return tooLong(bytes);
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
    if (part.length < size) return tooLong(bytes);
    at += 5 + size;
  }
}

const tooLong = (bytes: Uint8Array): Hello => (bytes.length > HELLO_BYTES_MAX ? notTls : more);

/** Every read is checked against the end; what does not add up is no hello. */
function readMessage(body: Uint8Array): Hello {
  let at = 2 + 32;
  const take = (lengthBytes: 1 | 2): Uint8Array | undefined => {
    if (at + lengthBytes > body.length) return undefined;
    const size = lengthBytes === 1 ? body[at]! : (body[at]! << 8) | body[at + 1]!;
    at += lengthBytes + size;
    return at > body.length ? undefined : body.subarray(at - size, at);
  };
  const session = take(1);
  const ciphers = session === undefined ? undefined : take(2);
  const compressions = ciphers === undefined ? undefined : take(1);
  if (compressions === undefined) return notTls;
  if (at === body.length) return { state: 'hello', serverName: undefined };
  const extensions = take(2);
  if (extensions === undefined || at !== body.length) return notTls;
  return readExtensions(extensions);
}

function readExtensions(bytes: Uint8Array): Hello {
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
    // Two of them, or two names in one, would leave it to the server which one counts.
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
