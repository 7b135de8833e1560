// Checks of what holds agents on this host: each level and each feature, by trying. A runtime that
// is up says it of itself; otherwise a warden is started for it, and ended.
import { spawnSync } from 'node:child_process';
import { Fault, faultFromBody } from '../../../../wire/errors.ts';
import type { FeaturesView, Probe } from '../../../../wire/sandboxd.ts';
import { findProgram } from '../../programs.ts';
import type { RuntimeClient } from '../../runtime.ts';
import { type DoctorFinding, fail, no, ok, warn } from './finding.ts';

const WITHIN_MS = 15_000;

export async function checkSandboxes(
  stateDir: string,
  runtime: RuntimeClient | undefined,
): Promise<{ findings: DoctorFinding[]; view: FeaturesView | undefined }> {
  try {
    const view =
      runtime === undefined
        ? tryHere(stateDir)
        : await runtime.ask('sandboxd', 'features', {}, { deadlineMs: WITHIN_MS });
    return { findings: findingsOf(view), view };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const findings = [fail('sandboxes', error.message, error.hint)];
    return { findings, view: undefined };
  }
}

function tryHere(stateDir: string): FeaturesView {
  const argv = [findProgram('host-check'), '--state', stateDir];
  const ran = spawnSync(process.execPath, argv, { encoding: 'utf8', timeout: WITHIN_MS });
  const answer = JSON.parse(ran.stdout || '{"error":{}}') as FeaturesView | { error: unknown };
  if ('error' in answer) throw faultFromBody(answer);
  return answer;
}

function findingsOf(view: FeaturesView): DoctorFinding[] {
  const isNeeded = ({ name }: Probe) => name === view.runner_level;
  const levels = view.levels.map((tried): DoctorFinding => {
    const { name, works, detail, fix } = tried;
    if (works) return ok(name, isNeeded(tried) ? `${detail}; runners get it` : detail);
    if (fix === null && !isNeeded(tried)) return no(name, detail);
    return (isNeeded(tried) ? fail : warn)(name, detail, fix ?? undefined);
  });
  const seen = new Set<string>();
  const features = view.features.map(({ name, works, detail, fix }): DoctorFinding => {
    if (works) return ok(name, detail);
    // One command often helps several: it is said once.
    const again = fix === null || seen.has(fix);
    if (fix !== null) seen.add(fix);
    return warn(name, detail, again ? undefined : fix);
  });
  const mode = view.warden.mode === 'root' ? 'root' : 'an ordinary user';
  return [ok('warden', `runs as ${mode}; identity ${view.identity}`), ...levels, ...features];
}
