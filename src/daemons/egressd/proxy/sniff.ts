// The first bytes of a tunnel, read before any of them is passed on: TLS to the right server, plain
// HTTP that can be read, or something that has no business there.
import type net from 'node:net';
import type { Target } from '../../../policy/hosts.ts';
import { readHello } from '../rules/client-hello.ts';
import { isServerOf } from '../rules/request.ts';

export type SniffResult = {
  bytes: Buffer;
  is: 'tls' | 'http' | 'not_tls' | 'server_name' | 'gone';
};

const PORT_TLS = 443;
const REQUEST_LINE = /^[A-Z]{3,24} (\/|http:)/;
const MAY_BECOME_ONE = /^[A-Z]{1,24}( (h|ht|htt|http)?)?$/;

function sniff(bytes: Buffer, { host, port }: Target): SniffResult['is'] | 'more' {
  const hello = readHello(bytes);
  if (hello.state === 'more') return 'more';
  if (hello.state === 'hello') return isServerOf(host, hello.serverName) ? 'tls' : 'server_name';
  if (port === PORT_TLS) return 'not_tls';
  const text = bytes.subarray(0, 40).toString('latin1');
  if (REQUEST_LINE.test(text)) return 'http';
  return MAY_BECOME_ONE.test(text) ? 'more' : 'not_tls';
}

export function readFirst(
  socket: net.Socket,
  options: { head: Buffer; target: Target; timeoutMs: number; signal: AbortSignal },
): Promise<SniffResult> {
  const { target, signal } = options;
  return new Promise((resolve) => {
    let bytes = options.head;
    const settle = (is: SniffResult['is']): void => {
      clearTimeout(timer);
      socket.pause();
      socket.off('data', onData);
      socket.off('close', gone);
      socket.off('end', gone);
      signal.removeEventListener('abort', gone);
      resolve({ bytes, is });
    };
    const gone = (): void => settle('gone');
    const look = (): void => {
      const is = bytes.length === 0 ? 'more' : sniff(bytes, target);
      if (is !== 'more') settle(is);
    };
    const onData = (chunk: Buffer): void => {
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
      look();
    };
    const timer = setTimeout(gone, options.timeoutMs);
    if (signal.aborted || socket.destroyed) return gone();
    socket.on('data', onData);
    socket.on('close', gone);
    socket.on('end', gone);
    signal.addEventListener('abort', gone, { once: true });
    look();
  });
}
