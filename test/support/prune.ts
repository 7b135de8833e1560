// Prunes as a person would, and waits for the end of the pass.
import type { PruneReport, StartPrune } from '../../src/wire/agentd.ts';
import { type Clients, eventually } from './runtime.ts';

export async function prune(clients: Clients, body: StartPrune): Promise<PruneReport> {
  const { prune: started } = await clients.agentd.startPrune({ body });
  return passEnded(clients, started.started_at);
}

/** The report of the last pass, when it has ended. */
export function passEnded(clients: Clients, startedAt?: string): Promise<PruneReport> {
  return eventually('the end of the pass', async () => {
    const { prune: report } = await clients.agentd.getPrune({});
    if (report === null || report.status === 'running') return undefined;
    return startedAt === undefined || report.started_at === startedAt ? report : undefined;
  });
}

export const findKind = (report: PruneReport, name: string) =>
  report.kinds.find(({ kind }) => kind === name)!;
