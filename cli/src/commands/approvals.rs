//! `agentctl approvals`: the same services that the API's handlers call.

use baton_core::approvals::{ApprovalFilter, ResolveApproval, Verdict};
use baton_core::page::PageRequest;

use crate::args::{ApprovalsGet, ApprovalsList, ApprovalsResolve, Global};
use crate::connection::services;
use crate::exit::Failure;
use crate::render;

pub(crate) async fn list(global: &Global, args: ApprovalsList) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    let filter = ApprovalFilter { statuses: args.status, run_id: args.run, session_id: args.session };
    let request = PageRequest::new(args.cursor.as_deref(), args.limit)?;
    let page = services.approvals.list(&principal, &filter, &request).await?;
    if global.json { render::json(&page) } else { render::approvals(&page) }
}

pub(crate) async fn get(global: &Global, args: ApprovalsGet) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    let approval = services.approvals.get(&principal, args.approval).await?;
    if global.json { render::json(&approval) } else { render::approval(&approval) }
}

pub(crate) async fn resolve(global: &Global, args: ApprovalsResolve, verdict: Verdict) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    let command = ResolveApproval { decision: verdict, reason: args.reason };
    let approval = services.approvals.resolve(&principal, args.approval, command).await?;
    services.flush().await;
    if global.json { render::json(&approval) } else { render::approval(&approval) }
}
