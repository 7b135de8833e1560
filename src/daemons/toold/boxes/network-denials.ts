// Collects what egressd denied while a command ran. Programs that open a tunnel print only a 403,
// so the reasons are returned with the command's result.
import type { EgressDenial } from '../../../wire/egressd.ts';
import type { RunId } from '../../../wire/primitives.ts';
import type { NetworkDenied } from '../tools/box.ts';
import type { EgressdClient } from '../tools/http.ts';
import { peerOptions } from '../tools/tool.ts';

const DENIALS_MAX = 5;

const buildDenialKey = ({ reason, host, port, method, path }: EgressDenial): string =>
  JSON.stringify([reason, host, port, method, path]);

/** New or repeated denials, latest first, one per host and port. */
export function newDenials(
  before: readonly EgressDenial[],
  after: readonly EgressDenial[],
): NetworkDenied[] {
  const counts = new Map(before.map((denial) => [buildDenialKey(denial), denial.count]));
  const grown = after.filter((denial) => denial.count > (counts.get(buildDenialKey(denial)) ?? 0));
  const places = new Map<string, NetworkDenied>();
  for (const { reason: code, host, port, message, hint } of grown) {
    const place = `${host} ${port}`;
    if (!places.has(place)) places.set(place, { code, host, port, reason: message, hint });
  }
  return [...places.values()].slice(0, DENIALS_MAX);
}

/** Without a response from egressd the command still succeeds, only without explanations. */
export async function withDenials<T>(
  egressd: Pick<EgressdClient, 'getEgress'>,
  id: RunId,
  work: () => Promise<T>,
): Promise<{ done: T; denied: NetworkDenied[] }> {
  const readDenials = async (): Promise<readonly EgressDenial[] | undefined> => {
    try {
      return (await egressd.getEgress({ params: { id } }, peerOptions)).egress.denials;
    } catch {
      return undefined;
    }
  };
  const before = await readDenials();
  const done = await work();
  const after = before === undefined ? undefined : await readDenials();
  return { done, denied: after === undefined ? [] : newDenials(before!, after) };
}
