/** An action about to be taken: see the table `audit`. */
export interface NewAudit {
  readonly at: number;
  readonly who: string;
  readonly action: string;
  readonly target: string | null;
}

export interface AuditRecord extends NewAudit {
  readonly id: number;
  /** `done` or an error code; null while the action is running, or if the process ended during it. */
  readonly outcome: string | null;
}

export interface AuditFilter {
  readonly who?: string;
  readonly action?: string;
  readonly since?: number;
  /** Only records older than this one. */
  readonly before?: number;
  readonly limit: number;
}

export interface AuditRecords {
  /** Records an action before it is taken; resolves to the record's id. */
  beginAudit(deed: NewAudit): Promise<number>;
  endAudit(id: number, outcome: string): Promise<void>;
  /** Newest first. */
  audits(filter: AuditFilter): Promise<readonly AuditRecord[]>;
  pruneAudits(before: number, limit: number): Promise<number>;
}
