// Doctor checks of the sandbox levels and features on this host. A running runtime reports its own;
// otherwise a temporary warden probes them.
import { spawnSync } from 'node:child_process';
import { Fault, faultFromBody } from '../../../../wire/errors.ts';
import type { FeaturesView, Probe } from '../../../../wire/sandboxd.ts';
import { findProgram } from '../../programs.ts';
import type { RuntimeClient } from '../../runtime.ts';
import { type DoctorFinding, fail, no, ok, warn } from './finding.ts';

const TIMEOUT_MS = 15_000;

export async function checkSandboxes(
  stateDir: string,
  runtime: RuntimeClient | undefined,
): Promise<{ findings: DoctorFinding[]; view: FeaturesView | undefined }> {
  try {
    const view =
      runtime === undefined
        ? probeHost(stateDir)
        : await runtime.call('sandboxd', 'features', {}, { deadlineMs: TIMEOUT_MS });
    return { findings: toFindings(view), view };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const findings = [fail('sandboxes', error.message, error.hint)];
    return { findings, view: undefined };
  }
}

function probeHost(stateDir: string): FeaturesView {
  const argv = [findProgram('host-check'), '--state', stateDir];
  const ran = spawnSync(process.execPath, argv, { encoding: 'utf8', timeout: TIMEOUT_MS });
  const result = JSON.parse(ran.stdout || '{"error":{}}') as FeaturesView | { error: unknown };
  if ('error' in result) throw faultFromBody(result);
  return result;
}

function toFindings(view: FeaturesView): DoctorFinding[] {
  const isNeeded = ({ name }: Probe) => name === 'L2';
  const levels = view.levels.map((probe): DoctorFinding => {
    const { name, works, detail, fix } = probe;
    if (works) return ok(name, isNeeded(probe) ? `${detail}; used for runners` : detail);
    if (fix === null && !isNeeded(probe)) return no(name, detail);
    return (isNeeded(probe) ? fail : warn)(name, detail, fix ?? undefined);
  });
  const seen = new Set<string>();
  const features = view.features.map(({ name, works, detail, fix }): DoctorFinding => {
    if (works) return ok(name, detail);
    // One command often fixes several features; print it once.
    const again = fix === null || seen.has(fix);
    if (fix !== null) seen.add(fix);
    return warn(name, detail, again ? undefined : fix);
  });
  const mode = view.warden.mode === 'root' ? 'root' : 'an ordinary user';
  return [ok('warden', `runs as ${mode}; identity ${view.identity}`), ...levels, ...features];
}
