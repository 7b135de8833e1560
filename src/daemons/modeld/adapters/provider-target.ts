// Resolves a provider's address (an http or https URL, or a Unix socket) to a connection pool.
import net from 'node:net';
import tls from 'node:tls';
import { type HttpPool, makePool } from '../../../platform/http1/client.ts';
import { fault } from '../../../wire/errors.ts';
import type { DialectName } from '../../../wire/modeld.ts';

export type ProviderTarget = {
  pool: HttpPool;
  host: string;
  /** Prefix of every path. */
  basePath: string;
};

/** Providers at the same endpoint share a pool. */
export type Pools = { poolFor(endpoint: Endpoint): HttpPool; close(): void };
type Endpoint =
  | { kind: 'unix'; path: string }
  | { kind: 'tcp' | 'tls'; hostname: string; port: number };

export function makePools(): Pools {
  const pools = new Map<string, HttpPool>();
  return {
    poolFor(endpoint) {
      const name = JSON.stringify(endpoint);
      const known = pools.get(name) ?? openPool(endpoint);
      pools.set(name, known);
      return known;
    },
    close() {
      for (const pool of pools.values()) pool.close();
    },
  };
}

/** Unlimited: the rate limiter bounds concurrency, and a second queue would be invisible. */
function openPool(endpoint: Endpoint): HttpPool {
  if (endpoint.kind === 'tls') return openTlsPool(endpoint.hostname, endpoint.port);
  const options = { noDelay: true, keepAlive: true };
  const connect = (onread: net.OnReadOpts): net.Socket =>
    endpoint.kind === 'unix'
      ? net.connect({ path: endpoint.path, onread })
      : net.connect({ host: endpoint.hostname, port: endpoint.port, onread, ...options });
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
    // A session that the server has dropped must not be offered again.
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
  if (dialect === 'anthropic') return base.endsWith('/v1') ? base.slice(0, -3) : base;
  return base === '' ? '/v1' : base;
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
  const url = URL.parse(baseUrl);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw fault(
      'bad_config',
      `the base_url of provider ${provider.name} must start with http://, https:// or unix:/`,
    );
  }
  const isTls = url.protocol === 'https:';
  const endpoint: Endpoint = {
    kind: isTls ? 'tls' : 'tcp',
    // A literal IPv6 address has brackets in a URL and none in a connect call.
    hostname: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (isTls ? 443 : 80) : Number(url.port),
  };
  return {
    pool: pools.poolFor(endpoint),
    host: url.host,
    basePath: readBasePath(url.pathname, dialect),
  };
}
