// Measures the process that hosts a daemon: its memory, and how late its event loop runs timers.
import type { Metrics } from './metrics.ts';

/** Daemons of one process report the same values; the process id tells which they are. */
export function addProcessGauges(metrics: Metrics): void {
  metrics.gauge('process_id', () => process.pid);
  metrics.gauge('process_heap_used_bytes', () => process.memoryUsage().heapUsed);
  metrics.gauge('process_heap_total_bytes', () => process.memoryUsage().heapTotal);
  metrics.gauge('process_external_bytes', () => process.memoryUsage().external);
  metrics.gauge('process_rss_bytes', () => process.memoryUsage.rss());
}

const SAMPLE_INTERVAL_MS = 20;

/**
 * Returns a function to call with each request. The first one of an interval starts a timer, and
 * `observe` gets how much later than due that runs. Node's own monitor would wake an idle process
 * fifty times a second.
 */
export function makeLoopDelaySampler(observe: (delayMs: number) => void): () => void {
  let isSampling = false;
  return () => {
    if (isSampling) return;
    isSampling = true;
    const dueMs = performance.now() + SAMPLE_INTERVAL_MS;
    setTimeout(() => {
      isSampling = false;
      observe(Math.max(0, performance.now() - dueMs));
    }, SAMPLE_INTERVAL_MS).unref();
  };
}
