// Resolves names to addresses: the operator's table first, then the resolvers. Search domains are
// not used, nor is the thread pool, where slow lookups would block other work.
import { promises as dns } from 'node:dns';
import { networkInterfaces } from 'node:os';
import { type Ip, parseIp } from '../../../policy/hosts.ts';
import { fault } from '../../../wire/errors.ts';

/** Resolves to all addresses of a name. Called only for names that are allowed. */
export type Resolve = (name: string) => Promise<Ip[]>;

const ADDRESSES_MAX = 32;

export function makeResolve(options: {
  hosts: ReadonlyMap<string, Ip>;
  servers: readonly string[];
  timeoutMs: number;
}): Resolve {
  let resolver: dns.Resolver | undefined;
  const getResolver = (): dns.Resolver => {
    if (resolver !== undefined) return resolver;
    resolver = new dns.Resolver({ timeout: Math.ceil(options.timeoutMs / 2), tries: 2 });
    if (options.servers.length > 0) resolver.setServers(options.servers);
    return resolver;
  };
  return async (name) => {
    const known = options.hosts.get(name);
    if (known !== undefined) return [known];
    const loopback = parseIp('127.0.0.1')!;
    if (name === 'localhost' || name.endsWith('.localhost')) return [loopback];
    const queries = [getResolver().resolve4(name), getResolver().resolve6(name)];
    const results = await Promise.allSettled(queries);
    const texts = results.flatMap((result) => (result.status === 'fulfilled' ? result.value : []));
    const addresses = texts.map(parseIp);
    const [first] = results;
    if (addresses.length === 0) {
      const cause = first?.status === 'rejected' ? (first.reason as unknown) : undefined;
      throw fault('unreachable', `the name ${name} has no address`, { cause });
    }
    // An address that cannot be parsed cannot be checked.
    if (addresses.includes(undefined) || addresses.length > ADDRESSES_MAX)
      throw fault('unreachable', `the addresses of ${name} cannot be used`);
    return addresses as Ip[];
  };
}

const CACHE_MS = 1_000;

/** Returns a function that lists the addresses of this host's interfaces. */
export function makeOwnAddresses(nowMs: () => number): () => ReadonlySet<string> {
  let cached: ReadonlySet<string> = new Set();
  let cachedMs = -Infinity;
  return () => {
    if (nowMs() - cachedMs < CACHE_MS) return cached;
    cachedMs = nowMs();
    const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    cached = new Set(all.flatMap(({ address }) => parseIp(address.split('%')[0]!)?.text ?? []));
    return cached;
  };
}
