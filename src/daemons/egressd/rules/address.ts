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

/** What the operator's list of private targets can open; the rest stays shut for everybody. */
export const LIFTABLE: ReadonlySet<AddressKind> = new Set([
  'loopback',
  'private',
  'carrier',
  'this-host',
]);

type Range = readonly [prefix: string, bits: number, kind: AddressKind];
type Block = { start: readonly number[]; bits: number; kind: AddressKind };

const blockOf = ([prefix, bits, kind]: Range): Block => ({
  start: parseIp(prefix)!.bytes,
  bits,
  kind,
});
const blocks = (ranges: readonly Range[]): Block[] => ranges.map(blockOf);

/** In order: the first that holds the address says its kind. */
const BLOCKS_4 = blocks([
  ['169.254.169.254', 32, 'metadata'],
  ['169.254.170.2', 32, 'metadata'], // tasks of a container service
  ['100.100.100.200', 32, 'metadata'],
  ['168.63.129.16', 32, 'metadata'], // looks public, is the host's own service
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

/** Forms that carry an IPv4 address, and where; only the translated one is a way to a place. */
const CARRIERS: readonly { block: Block; at: number; flip?: true; leadsOn?: true }[] = [
  { block: blockOf(['::ffff:0:0', 96, 'reserved']), at: 12 },
  { block: blockOf(['::ffff:0:0:0', 96, 'reserved']), at: 12 },
  { block: blockOf(['64:ff9b::', 96, 'reserved']), at: 12, leadsOn: true },
  { block: blockOf(['2002::', 16, 'reserved']), at: 2 },
  { block: blockOf(['2001::', 32, 'reserved']), at: 12, flip: true },
];

function holds({ start, bits }: Block, bytes: readonly number[]): boolean {
  const whole = bits >> 3;
  for (let i = 0; i < whole; i++) if (bytes[i] !== start[i]) return false;
  const mask = (0xff00 >> (bits & 7)) & 255;
  return mask === 0 || (bytes[whole]! & mask) === (start[whole]! & mask);
}

const kindIn = (list: readonly Block[], bytes: readonly number[]): AddressKind | undefined =>
  list.find((block) => holds(block, bytes))?.kind;

const kindOf4 = (bytes: readonly number[]): AddressKind => kindIn(BLOCKS_4, bytes) ?? 'public';

function kindOf6(bytes: readonly number[]): AddressKind {
  const carrier = CARRIERS.find(({ block }) => holds(block, bytes));
  if (carrier === undefined) return kindIn(BLOCKS_6, bytes) ?? 'reserved';
  const { at, flip, leadsOn } = carrier;
  const inner = bytes.slice(at, at + 4).map((byte) => (flip === true ? byte ^ 255 : byte));
  const kind = kindOf4(inner);
  return kind === 'public' && leadsOn !== true ? 'reserved' : kind;
}

/** `own` are the addresses of this host's interfaces, in the form of `Ip.text`. */
export function kindOf({ family, bytes, text }: Ip, own: ReadonlySet<string>): AddressKind {
  const kind = family === 4 ? kindOf4(bytes) : kindOf6(bytes);
  return kind === 'public' && own.has(text) ? 'this-host' : kind;
}
