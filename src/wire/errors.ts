// Defines every fault that crosses a boundary: its hint, whether a retry can help, its HTTP and
// exit status. A fault crosses every link unchanged. Decisions (allow, ask, deny) are values, not
// faults; bugs are asserts and reach callers only as `internal`.

type Row = { http: number; exit: number; retry: boolean; hint: string };

/** A retry cannot help. */
const permanent = (http: number, exit: number, hint: string): Row => ({
  http,
  exit,
  retry: false,
  hint,
});
/** A retry can help. */
const transient = (http: number, exit: number, hint: string): Row => ({
  http,
  exit,
  retry: true,
  hint,
});

export const FAULTS = {
  bad_request: permanent(400, 2, 'Correct the named field and send it again.'),
  bad_json: permanent(400, 2, 'Send one JSON document in valid UTF-8.'),
  too_deep: permanent(400, 2, 'Nest arrays and objects less deeply.'),
  bad_usage: permanent(400, 2, 'See --help for the right form.'),
  unauthenticated: permanent(
    401,
    3,
    "Use this state directory's operator key (STATE/operator.key), or an API key for models.",
  ),
  forbidden_caller: permanent(
    403,
    3,
    'Call it as one of the callers that docs/api.md lists for this route.',
  ),
  forbidden_origin: permanent(
    403,
    3,
    'Call from this host, without a foreign Host or Origin header.',
  ),
  denied: permanent(403, 3, 'Do without it, or ask a person to change the rule.'),
  not_found: permanent(404, 5, 'List what exists, and use one of those names or ids.'),
  pruned: permanent(410, 5, 'See what the log still has: agentctl audit task ID.'),
  archived: permanent(
    410,
    5,
    'Read it from the archive: agentctl audit task|agent|tool|prove … --archive DIR.',
  ),
  no_such_route: permanent(404, 2, 'Use one of the routes in docs/api.md.'),
  method_not_allowed: permanent(405, 2, 'Use one of the methods in the Allow header.'),
  conflict: permanent(409, 1, 'Read the current state, then decide again.'),
  stale_fence: permanent(409, 1, 'Stop: a newer activation holds this run.'),
  ended: permanent(409, 1, 'Retry it as a new task: agentctl task retry ID.'),
  cycle: permanent(409, 2, 'Remove one of the dependencies in the cycle.'),
  idempotency_mismatch: permanent(409, 1, 'Use a new Idempotency-Key for a different request.'),
  replay_differs: permanent(409, 1, 'Repeat the call exactly as recorded, or use a new call_id.'),
  agent_paused: permanent(409, 1, 'Resume the agent first: agentctl resume NAME.'),
  halted: transient(409, 1, 'Lift the halt first: agentctl unhalt.'),
  too_large: permanent(413, 2, 'Send less, or store it as an artifact and refer to it.'),
  unsupported_media: permanent(415, 2, 'Send Content-Type: application/json.'),
  bad_output: permanent(502, 70, 'The service returned an invalid response; see its log.'),
  breaker: permanent(429, 7, 'Change the approach or end the task: the run made no progress.'),
  budget: permanent(402, 7, 'Raise the budget, or wait until it renews.'),
  limit: permanent(429, 7, 'Finish the task, or create one with higher limits.'),
  rate_limited: transient(429, 1, 'Wait for retry_after_ms, then try again.'),
  overloaded: transient(503, 1, 'Try again in a few seconds: the queue is full.'),
  unavailable: transient(503, 6, 'The service is temporarily unavailable; try again later.'),
  unreachable: permanent(502, 1, 'Check the host name and port; the server may be down.'),
  runtime_down: transient(503, 6, 'Start the runtime: agentctl up.'),
  stopping: transient(503, 6, 'Try again when the runtime is up again: it is shutting down.'),
  audit_unavailable: transient(
    503,
    1,
    'Actions are refused while they cannot be recorded; check auditd-ai.',
  ),
  storage_full: transient(507, 1, "Free space on the state directory's disk."),
  storage_broken: permanent(
    500,
    70,
    'Check the disk (dmesg lists its errors); restore damaged files from a backup.',
  ),
  deadline: transient(
    504,
    1,
    'Retry; with the same Idempotency-Key or call_id nothing is done twice.',
  ),
  canceled: permanent(409, 1, 'The task or call was canceled.'),
  provider_auth: permanent(502, 1, "Check the provider's key: agentctl model test NAME."),
  provider_refused: permanent(502, 1, 'Correct the request; the message quotes the provider.'),
  provider_down: transient(502, 1, 'Try again later, or configure a fallback route.'),
  provider_malformed: transient(
    502,
    1,
    'The provider returned an invalid response; try again, or use another provider.',
  ),
  context_too_long: permanent(400, 7, 'Send fewer tokens, or use a model with a larger window.'),
  data_not_allowed: permanent(
    403,
    3,
    'Use a provider that is allowed to see data with this label.',
  ),
  bad_config: permanent(500, 78, 'Correct the file at the named line.'),
  bad_manifest: permanent(400, 78, 'Correct the manifest at the named line.'),
  state_in_use: permanent(
    409,
    1,
    'Use or stop the runtime that holds it, or choose another --state.',
  ),
  state_newer: permanent(500, 78, 'Use the newer agentd that wrote it, or choose another --state.'),
  level_unavailable: permanent(
    409,
    1,
    'Run agentctl doctor to see which levels this host supports, and why.',
  ),
  sandbox_refused: permanent(500, 1, "Run agentctl doctor, and check sandboxd's log."),
  path_too_long: permanent(400, 78, 'Use a shorter XDG_RUNTIME_DIR.'),
  log_damaged: permanent(500, 1, 'Keep the directory unchanged and compare it with a backup.'),
  internal: permanent(500, 70, 'Report this bug; the log has the details under the reference.'),
} satisfies Record<string, Row>;

export type FaultCode = keyof typeof FAULTS;

/** The form of a fault on the wire: `{"error": {...}}`. */
export type FaultBody = {
  code: FaultCode;
  message: string;
  hint: string;
  retry: boolean;
  retry_after_ms?: number | undefined;
  details?: Record<string, unknown> | undefined;
};

export type FaultExtra = {
  hint?: string | undefined;
  retryAfterMs?: number | undefined;
  details?: Record<string, unknown> | undefined;
  cause?: unknown;
};

export class Fault extends Error {
  override name = 'Fault';
  code: FaultCode;
  hint: string;
  retryAfterMs: number | undefined;
  details: Record<string, unknown> | undefined;

  constructor(code: FaultCode, message: string, extra: FaultExtra = {}) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause });
    this.code = code;
    this.hint = extra.hint ?? FAULTS[code].hint;
    this.retryAfterMs = extra.retryAfterMs;
    this.details = extra.details;
  }

  get http(): number {
    return FAULTS[this.code].http;
  }

  get retry(): boolean {
    return FAULTS[this.code].retry;
  }

  toBody(): FaultBody {
    return {
      code: this.code,
      message: this.message,
      hint: this.hint,
      retry: this.retry,
      ...(this.retryAfterMs === undefined ? {} : { retry_after_ms: this.retryAfterMs }),
      ...(this.details === undefined ? {} : { details: this.details }),
    };
  }
}

export function fault(code: FaultCode, message: string, extra?: FaultExtra): Fault {
  return new Fault(code, message, extra);
}

/** Former codes that peers of the previous release still send. */
const RENAMED_CODES = new Map<string | undefined, FaultCode>([['not_reachable', 'runtime_down']]);

/** Rebuilds a fault from its body. An unknown code, as from a newer peer, becomes `internal`. */
export function faultFromBody(body: unknown): Fault {
  const error = (body as { error?: Partial<FaultBody> } | null)?.error;
  const code = RENAMED_CODES.get(error?.code) ?? error?.code;
  const known = code !== undefined && code in FAULTS ? code : 'internal';
  return new Fault(known, error?.message ?? 'the response was an error without a message', {
    hint: error?.hint,
    retryAfterMs: error?.retry_after_ms,
    details: error?.details,
  });
}
