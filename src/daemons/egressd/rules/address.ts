// Classifies IP addresses by the kind of network they lead to. An address inside another (mapped,
// translated, tunnelled) has the kind of the one it leads to.
import { type Ip, parseIp } from '../../../policy/hosts.ts';

export type AddressKind =
  | 'public'
  | 'unspecified'
  | 'loopback'
  | 'private'
  | 'carrier'
  | 'link-local'
  | 'multicast'
  | 'metadata'
  | 'reserved'
  | 'this-host';

/** The kinds that `allow_private` can open; the others are always denied. */
export const LIFTABLE: ReadonlySet<AddressKind> = new Set([
  'loopback',
  'private',
  'carrier',
  'this-host',
]);

type Range = readonly [prefix: string, bits: number, kind: AddressKind];
type Block = { start: readonly number[]; bits: number; kind: AddressKind };

const parseBlock = ([prefix, bits, kind]: Range): Block => ({
  start: parseIp(prefix)!.bytes,
  bits,
  kind,
});
const blocks = (ranges: readonly Range[]): Block[] => ranges.map(parseBlock);

/** The first block that contains the address determines its kind. */
const BLOCKS_4 = blocks([
  ['169.254.169.254', 32, 'metadata'],
  ['169.254.170.2', 32, 'metadata'], // ECS tasks
  ['100.100.100.200', 32, 'metadata'],
  ['168.63.129.16', 32, 'metadata'], // Azure: public range, but the host's own service
  ['192.0.0.192', 32, 'metadata'],
  ['0.0.0.0', 8, 'unspecified'],
  ['127.0.0.0', 8, 'loopback'],
  ['10.0.0.0', 8, 'private'],
  ['172.16.0.0', 12, 'private'],
  ['192.168.0.0', 16, 'private'],
  ['100.64.0.0', 10, 'carrier'],
  ['169.254.0.0', 16, 'link-local'],
  ['192.0.0.0', 24, 'reserved'],
  ['192.0.2.0', 24, 'reserved'],
  ['192.88.99.0', 24, 'reserved'],
  ['198.18.0.0', 15, 'reserved'],
  ['198.51.100.0', 24, 'reserved'],
  ['203.0.113.0', 24, 'reserved'],
  ['224.0.0.0', 4, 'multicast'],
  ['240.0.0.0', 4, 'reserved'],
]);
const BLOCKS_6 = blocks([
  ['fd00:ec2::254', 128, 'metadata'],
  ['fd20:ce::254', 128, 'metadata'],
  ['::', 128, 'unspecified'],
  ['::1', 128, 'loopback'],
  ['fc00::', 7, 'private'],
  ['fec0::', 10, 'private'],
  ['fe80::', 10, 'link-local'],
  ['ff00::', 8, 'multicast'],
  ['2001::', 23, 'reserved'],
  ['2001:db8::', 32, 'reserved'],
  ['3fff::', 20, 'reserved'],
  ['2000::', 3, 'public'],
  ['::', 0, 'reserved'],
]);

/** IPv6 forms that embed an IPv4 address, and its offset; only NAT64 is routable. */
const CARRIERS: readonly { block: Block; at: number; isInverted?: true; isRoutable?: true }[] = [
  { block: parseBlock(['::ffff:0:0', 96, 'reserved']), at: 12 },
  { block: parseBlock(['::ffff:0:0:0', 96, 'reserved']), at: 12 },
  { block: parseBlock(['64:ff9b::', 96, 'reserved']), at: 12, isRoutable: true },
  { block: parseBlock(['2002::', 16, 'reserved']), at: 2 },
  { block: parseBlock(['2001::', 32, 'reserved']), at: 12, isInverted: true },
];

function containsAddress({ start, bits }: Block, bytes: readonly number[]): boolean {
  const whole = bits >> 3;
  for (let i = 0; i < whole; i++) if (bytes[i] !== start[i]) return false;
  const mask = (0xff00 >> (bits & 7)) & 255;
  return mask === 0 || (bytes[whole]! & mask) === (start[whole]! & mask);
}

const findKind = (list: readonly Block[], bytes: readonly number[]): AddressKind | undefined =>
  list.find((block) => containsAddress(block, bytes))?.kind;

const classify4 = (bytes: readonly number[]): AddressKind => findKind(BLOCKS_4, bytes) ?? 'public';

function classify6(bytes: readonly number[]): AddressKind {
  const carrier = CARRIERS.find(({ block }) => containsAddress(block, bytes));
  if (carrier === undefined) return findKind(BLOCKS_6, bytes) ?? 'reserved';
  const { at, isInverted, isRoutable } = carrier;
  const inner = bytes.slice(at, at + 4).map((byte) => (isInverted === true ? byte ^ 255 : byte));
  const kind = classify4(inner);
  return kind === 'public' && isRoutable !== true ? 'reserved' : kind;
}

/** `own` are the addresses of this host's interfaces, in the form of `Ip.text`. */
export function classifyAddress(
  { family, bytes, text }: Ip,
  own: ReadonlySet<string>,
): AddressKind {
  const kind = family === 4 ? classify4(bytes) : classify6(bytes);
  return kind === 'public' && own.has(text) ? 'this-host' : kind;
}
