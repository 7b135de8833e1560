// Restricts a run as soon as a host has sent it a byte. toold marks the run only when the command
// has ended; until then, what that host said could be sent to any other host that the rules list.
// So from the first byte on, other hosts are reached only as a marked run reaches them: to read.
import type { Host } from '../../../policy/hosts.ts';
import type { Destination } from './match.ts';

/** A run marked `outside` may still do this without a person. */
const ONLY_READS: ReadonlySet<string> = new Set(['GET', 'HEAD']);

export type ResponderState = {
  /** undefined: nothing was received. null: received, but a restart lost from whom. */
  responder: string | null | undefined;
  isMirror: (host: Host) => boolean;
};

export function isOpenAfterResponse(
  { responder, isMirror }: ResponderState,
  dest: Destination,
): boolean {
  if (responder === undefined || responder === dest.host.name || isMirror(dest.host)) return true;
  return dest.how === 'http' && ONLY_READS.has(dest.method) && !dest.hasBody && !dest.isOverridden;
}
