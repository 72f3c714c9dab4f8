/** The status of an attempt, and its error if the status does not say it. */
export function answerText({
  status,
  error,
}: {
  readonly status: number | null;
  readonly error: string | null;
}): string {
  return [status, error === `status_${status}` ? null : error].filter((part) => part !== null).join(' ');
}
