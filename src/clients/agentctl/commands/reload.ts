// agentctl reload: has each daemon read the configuration again, and says what it took.
import type { ReloadView } from '../../../platform/reload-config.ts';
import { DAEMONS } from '../../../wire/daemons.ts';
import type { Session } from '../command.ts';
import { wrap } from '../show/width.ts';

export async function reload({ out, runtime }: Session): Promise<void> {
  const all: ReloadView = { taken: [], waiting: [] };
  for (const daemon of DAEMONS) {
    const { taken, waiting } = await runtime().call(daemon, 'reload', {});
    all.taken.push(...taken);
    all.waiting.push(...waiting);
  }
  out.print({ reload: all }, () => describe(all).flatMap((line) => wrap(line, out.columns)));
}

function describe({ taken, waiting }: ReloadView): string[] {
  if (taken.length + waiting.length === 0)
    return ['The configuration is the one that is running; nothing was changed.'];
  return [
    ...(taken.length === 0 ? [] : [`In force now: ${taken.join(', ')}`]),
    ...(waiting.length === 0
      ? []
      : [`Takes effect at the next start: ${waiting.join(', ')}`, 'Restart it: agentctl restart']),
  ];
}
