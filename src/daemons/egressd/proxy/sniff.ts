// Classifies the first bytes of a tunnel before any is forwarded: TLS to the right server, plain
// HTTP, or something that is not allowed.
import type net from 'node:net';
import type { Target } from '../../../policy/hosts.ts';
import { parseClientHello } from '../rules/client-hello.ts';
import { matchesServerName } from '../rules/request.ts';

export type SniffResult = {
  bytes: Buffer;
  is: 'tls' | 'http' | 'not_tls' | 'server_name' | 'gone';
};

const PORT_TLS = 443;
const REQUEST_LINE = /^[A-Z]{3,24} (\/|http:)/;
const REQUEST_LINE_PREFIX = /^[A-Z]{1,24}( (h|ht|htt|http)?)?$/;

function classifyBytes(bytes: Buffer, { host, port }: Target): SniffResult['is'] | 'more' {
  const hello = parseClientHello(bytes);
  if (hello.state === 'more') return 'more';
  if (hello.state === 'hello')
    return matchesServerName(host, hello.serverName) ? 'tls' : 'server_name';
  if (port === PORT_TLS) return 'not_tls';
  const text = bytes.subarray(0, 40).toString('latin1');
  if (REQUEST_LINE.test(text)) return 'http';
  return REQUEST_LINE_PREFIX.test(text) ? 'more' : 'not_tls';
}

export function sniffClient(
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
    const classify = (): void => {
      const is = bytes.length === 0 ? 'more' : classifyBytes(bytes, target);
      if (is !== 'more') settle(is);
    };
    const onData = (chunk: Buffer): void => {
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
      classify();
    };
    const timer = setTimeout(gone, options.timeoutMs);
    if (signal.aborted || socket.destroyed) return gone();
    socket.on('data', onData);
    socket.on('close', gone);
    socket.on('end', gone);
    signal.addEventListener('abort', gone, { once: true });
    classify();
  });
}
