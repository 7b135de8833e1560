// Where a provider is: an http or https URL, or a Unix socket. Sockets stay open between calls.
import net from 'node:net';
import tls from 'node:tls';
import { type HttpPool, makePool } from '../../../platform/http1/client.ts';
import { fault } from '../../../wire/errors.ts';
import type { DialectName } from './dialect.ts';

export type ProviderTarget = {
  pool: HttpPool;
  /** What the Host header says. */
  host: string;
  /** Put before every path. */
  basePath: string;
};

/** Pools by place: providers at the same place share their sockets. */
export type Pools = { poolFor(place: Endpoint): HttpPool; close(): void };
type Endpoint =
  | { kind: 'unix'; path: string }
  | { kind: 'tcp' | 'tls'; hostname: string; port: number };

export function makePools(): Pools {
  const pools = new Map<string, HttpPool>();
  return {
    poolFor(place) {
      const name = JSON.stringify(place);
      const known = pools.get(name) ?? openPool(place);
      pools.set(name, known);
      return known;
    },
    close() {
      for (const pool of pools.values()) pool.close();
    },
  };
}

/** The gate limits how many calls run at once; a second limit here would only hide a queue. */
function openPool(place: Endpoint): HttpPool {
  if (place.kind === 'tls') return openTlsPool(place.hostname, place.port);
  const options = { noDelay: true, keepAlive: true };
  const connect = (onread: net.OnReadOpts): net.Socket =>
    place.kind === 'unix'
      ? net.connect({ path: place.path, onread })
      : net.connect({ host: place.hostname, port: place.port, onread, ...options });
  return makePool({ connect });
}

function openTlsPool(hostname: string, port: number): HttpPool {
  let session: Buffer | undefined;
  const connect = (onread: net.OnReadOpts): net.Socket => {
    const options: tls.ConnectionOptions & { onread: net.OnReadOpts } = {
      onread,
      host: hostname,
      port,
      servername: net.isIP(hostname) === 0 ? hostname : '',
      ALPNProtocols: ['http/1.1'],
      ...(session === undefined ? {} : { session }),
    };
    const socket = tls.connect(options);
    socket.setNoDelay(true);
    socket.setKeepAlive(true);
    socket.on('session', (made: Buffer) => {
      session = made;
    });
    // One that the other side does not know any more must not be offered again.
    socket.once('error', () => {
      session = undefined;
    });
    return socket;
  };
  return makePool({ connect, readyEvent: 'secureConnect' });
}

/** OpenAI's base URLs end in /v1 by custom and Anthropic's do not; both spellings work for both. */
function readBasePath(path: string, dialect: DialectName): string {
  const base = path.replace(/\/+$/, '');
  if (dialect === 'openai') return base === '' ? '/v1' : base;
  return base.endsWith('/v1') ? base.slice(0, -3) : base;
}

/** `unix:/run/x.sock`, or `unix:/run/x.sock:/base/path`. */
function parseUnix(baseUrl: string): { socketPath: string; path: string } {
  const rest = baseUrl.slice('unix:'.length);
  const mark = rest.indexOf(':/');
  if (mark === -1) return { socketPath: rest, path: '' };
  return { socketPath: rest.slice(0, mark), path: rest.slice(mark + 1) };
}

export function parseTarget(
  provider: { name: string; baseUrl: string; dialect: DialectName },
  pools: Pools,
): ProviderTarget {
  const { baseUrl, dialect } = provider;
  if (baseUrl.startsWith('unix:/')) {
    const { socketPath, path } = parseUnix(baseUrl);
    const pool = pools.poolFor({ kind: 'unix', path: socketPath });
    return { pool, host: 'localhost', basePath: encodeURI(readBasePath(path, dialect)) };
  }
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw fault(
      'bad_config',
      `the base_url of provider ${provider.name} must start with http://, https:// or unix:/`,
    );
  }
  const isTls = url.protocol === 'https:';
  const place: Endpoint = {
    kind: isTls ? 'tls' : 'tcp',
    // A literal IPv6 address has brackets in a URL and none in a connect call.
    hostname: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (isTls ? 443 : 80) : Number(url.port),
  };
  return {
    pool: pools.poolFor(place),
    host: url.host,
    basePath: readBasePath(url.pathname, dialect),
  };
}
