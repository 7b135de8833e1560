// Names to addresses: the operator's table first, then the resolvers. Asked by name alone, without
// search domains, and not through the thread pool, where slow answers would hold up everybody.
import { promises as dns } from 'node:dns';
import { networkInterfaces } from 'node:os';
import { type Ip, parseIp } from '../../../policy/hosts.ts';
import { fault } from '../../../wire/errors.ts';

/** All addresses of a name. Called only for names that are allowed. */
export type Resolve = (name: string) => Promise<Ip[]>;

const ADDRESSES_MAX = 32;

export function makeResolve(options: {
  hosts: ReadonlyMap<string, Ip>;
  servers: readonly string[];
  timeoutMs: number;
}): Resolve {
  let resolver: dns.Resolver | undefined;
  const made = (): dns.Resolver => {
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
    const asked = [made().resolve4(name), made().resolve6(name)];
    const answers = await Promise.allSettled(asked);
    const texts = answers.flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
    const addresses = texts.map(parseIp);
    const [first] = answers;
    if (addresses.length === 0) {
      const cause = first?.status === 'rejected' ? (first.reason as unknown) : undefined;
      throw fault('unreachable', `the name ${name} has no address`, { cause });
    }
    // One that cannot be read cannot be checked.
    if (addresses.includes(undefined) || addresses.length > ADDRESSES_MAX)
      throw fault('unreachable', `the addresses of ${name} cannot be used`);
    return addresses as Ip[];
  };
}

const FRESH_MS = 1_000;

/** The addresses of this host's own interfaces. */
export function makeOwnAddresses(nowMs: () => number): () => ReadonlySet<string> {
  let seen: ReadonlySet<string> = new Set();
  let seenMs = -Infinity;
  return () => {
    if (nowMs() - seenMs < FRESH_MS) return seen;
    seenMs = nowMs();
    const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    seen = new Set(all.flatMap(({ address }) => parseIp(address.split('%')[0]!)?.text ?? []));
    return seen;
  };
}
